package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/rshub/rshub/internal/base/ingress"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/store/redisstore"
	"github.com/rshub/rshub/store/seal"
	"github.com/rshub/rshub/validate"
)

// Check returns an error for each mistake that package config does not see, and for which a hub
// with these settings would not start; nil: there is none. It reads the files that the settings
// name, and opens neither the store nor an address.
func Check(cfg *config.Config, origins config.Origins) error {
	var all []error
	note := func(setting string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", origins.Where(setting), err))
		}
	}
	patterns := func(setting string, list []string) {
		for _, pattern := range list {
			_, err := validate.ParsePattern(pattern)
			note(setting, err)
		}
	}
	patterns("topic-allow", cfg.TopicAllow)
	patterns("topic-deny", cfg.TopicDeny)
	for _, p := range cfg.Publishers {
		if err := CheckPublishers([]config.Publisher{p}); err != nil {
			all = append(all, fmt.Errorf("%s: publisher %q: %w", cfg.PublishersFile, p.Name, err))
		}
	}
	note("tls-cert", checkCertificate(cfg.TLSCert, cfg.TLSKey))
	note("admin-tls-cert", checkCertificate(cfg.AdminTLSCert, cfg.AdminTLSKey))
	if cfg.SealKeyFile != "" {
		_, _, err := seal.ReadFile(cfg.SealKeyFile)
		note("seal-key-file", err)
	}
	if setting := "redis-url"; cfg.RedisURL != "" {
		if cfg.RedisURLFile != "" {
			setting = "redis-url-file"
		}
		note(setting, redisstore.CheckURL(string(cfg.RedisURL)))
	}
	return errors.Join(all...)
}

// checkCertificate returns why a listener cannot use the pair in two files. Without one of the names,
// it uses none, or package config has refused it.
func checkCertificate(certFile, keyFile string) error {
	if certFile == "" || keyFile == "" {
		return nil
	}
	_, err := ingress.ReadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	return err
}

package app

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/rshub/rshub/admin"
	"github.com/rshub/rshub/hub"
	"github.com/rshub/rshub/internal/program/config"
	"github.com/rshub/rshub/validate"
)

// registry has the publishers that are in force, and the files that they came from.
type registry struct {
	fromFiles
	live validate.Publishers
	log  *zap.Logger

	mu      sync.Mutex // guards read
	read    []config.Publisher
	secrets []string // the files that the publishers file names
}

// begin puts the publishers in force that were read at the start.
func (r *registry) begin(file string, list []config.Publisher, log *zap.Logger) error {
	r.fromFiles = fromFiles{what: "publishers", file: file, load: r.readAgain}
	r.log, r.secrets = log, secretFiles(list)
	r.watchFiles()
	return r.set(list)
}

// watchFiles records the state of the files.
func (r *registry) watchFiles() { r.files.Take(append([]string{r.file}, r.secrets...)...) }

// set puts a list in force. After an error nothing has changed.
func (r *registry) set(list []config.Publisher) error {
	valid, err := publishers(list)
	if err == nil {
		r.live.Replace(valid)
		r.mu.Lock()
		r.read = list
		r.mu.Unlock()
	}
	return err
}

// readAgain reads the publishers file again, and says what changed. If the file has
// mistakes or is missing, nothing changes.
func (r *registry) readAgain() (detail string, err error) {
	list, err := r.readAll()
	if len(r.read) == 0 && errors.Is(err, config.ErrNoPublishersFile) {
		err = nil // as before
	}
	before := r.read
	if err == nil {
		err = r.set(list)
	}
	if err != nil {
		r.log.Error("the publishers file could not be read again; the earlier publishers stay in force", zap.String("event", "reload_failed"),
			zap.String("file", r.file), zap.Error(err))
		return "", err
	}
	added, removed, changed := difference(before, list)
	r.log.Info("the publishers file was read again; other settings need a restart", zap.String("event", "reloaded"),
		zap.String("file", r.file), zap.Int("publishers", len(list)),
		zap.Strings("added", added), zap.Strings("removed", removed), zap.Strings("changed", changed))
	detail = fmt.Sprintf("%d in force", len(list))
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", added}, {"changed", changed}, {"removed", removed}} {
		if len(part.names) > 0 {
			detail += "; " + part.what + " " + strings.Join(part.names, ", ")
		}
	}
	return detail, nil
}

// readAll reads the publishers file and the secrets that it names. It records the state of
// files before it reads them, so it reads once more if the file names others than before.
func (r *registry) readAll() ([]config.Publisher, error) {
	for tries := 0; ; tries++ {
		r.watchFiles()
		list, err := config.ReadPublishers(r.file)
		named := secretFiles(list)
		if err != nil && len(list) == 0 || slices.Equal(named, r.secrets) || tries == 2 {
			return list, err
		}
		r.secrets = named
	}
}

func secretFiles(list []config.Publisher) (names []string) {
	for _, p := range list {
		if p.SecretFile != "" {
			names = append(names, p.SecretFile)
		}
	}
	return names
}

// difference names the publishers that are in only one list, or differ.
func difference(before, after []config.Publisher) (added, removed, changed []string) {
	named := func(list []config.Publisher, name string) int {
		return slices.IndexFunc(list, func(p config.Publisher) bool { return p.Name == name })
	}
	for i := range after {
		switch was := named(before, after[i].Name); {
		case was < 0:
			added = append(added, after[i].Name)
		case !reflect.DeepEqual(before[was], after[i]):
			changed = append(changed, after[i].Name)
		}
	}
	for i := range before {
		if named(after, before[i].Name) < 0 {
			removed = append(removed, before[i].Name)
		}
	}
	return added, removed, changed
}

// list returns the publishers that are in force, and the one without a name.
func (r *registry) list() []admin.Publisher {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []admin.Publisher{{}}
	for _, p := range r.read {
		list = append(list, admin.Publisher{Name: p.Name, Topics: p.Topics, Token: len(p.TokenSHA256) > 0, Signature: p.Secret != ""})
	}
	slices.SortFunc(list, func(a, b admin.Publisher) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// publishes counts what publishers do. It may be shared between goroutines.
type publishes struct {
	mu sync.Mutex
	of map[string]admin.Use // by name; they are those of the publishers file
}

func (p *publishes) count(e hub.Event) {
	if e.Name != hub.EventPublish {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string]admin.Use{}
	}
	one := admin.Use{LastAt: e.Start.UTC(), Accepted: 1}
	if e.Err != nil {
		one.Accepted, one.Refused = 0, 1
	}
	of := p.of[e.Publisher]
	of.Add(one)
	p.of[e.Publisher] = of
}

func (p *publishes) list() map[string]admin.Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.of)
}

// CheckPublishers returns an error that says why a hub cannot use these publishers; nil:
// it can.
func CheckPublishers(list []config.Publisher) error {
	_, err := publishers(list)
	return err
}

// publishers returns the configured publishers as package validate has them.
func publishers(list []config.Publisher) ([]validate.Publisher, error) {
	return convert(list, func(p config.Publisher) (validate.Publisher, error) {
		topics, err := convert(p.Topics, validate.ParsePattern)
		if err != nil {
			return validate.Publisher{}, err
		}
		reads, err := convert(p.Reads, validate.ParsePattern)
		return validate.Publisher{Name: p.Name, Topics: topics, Reads: reads, TokenSHA256: p.TokenSHA256, Secret: string(p.Secret)}, err
	})
}

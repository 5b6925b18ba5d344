package config

import "github.com/spf13/pflag"

// AddStoreFlags puts the flags of the settings into fs that say where the store of
// a hub is, to be read by ResolveStore.
func AddStoreFlags(fs *pflag.FlagSet) {
	AddFlags(fs, "config", "data-dir", "redis-url", "redis-url-file", "redis-prefix", "install-id", "accept-empty-store", "seal-key-file")
}

// ResolveStore is Resolve for a command that opens the store of a hub and runs
// none: of the files that settings name only that of the store's URL is read.
func ResolveStore(fs *pflag.FlagSet, environ []string) (Config, error) {
	c, origins, err := resolve(fs, environ)
	if err != nil {
		return c, err
	}
	return c, c.finishRedis(origins)
}

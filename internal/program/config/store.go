package config

import "github.com/spf13/pflag"

// AddStoreFlags adds the flags that say where the store of a hub is. ResolveStore reads them.
func AddStoreFlags(fs *pflag.FlagSet) {
	AddFlags(fs, "config", "data-dir", "redis-url", "redis-url-file", "redis-prefix", "install-id", "accept-empty-store", "seal-key-file")
}

// ResolveStore is Resolve for a command that opens the store of a hub without running a hub.
// Of the files that settings name it reads only that with the store's URL.
func ResolveStore(fs *pflag.FlagSet, environ []string) (Config, error) {
	c, origins, err := resolve(fs, environ)
	if err != nil {
		return c, err
	}
	return c, c.finishRedis(origins)
}

// ResolveAdmin is Resolve for a command that asks the operator's listener of a hub on this
// machine. It returns the address of the listener, and whether the listener speaks https. It
// reads none of the files that settings name.
func ResolveAdmin(fs *pflag.FlagSet, environ []string) (addr string, secure bool, err error) {
	c, _, err := resolve(fs, environ)
	return c.AdminListen, c.AdminTLSCert != "", err
}

// Package config reads the settings of a hub: from flags, from the environment,
// from a YAML file, in this order of precedence, and from defaults. It reports where
// each value came from. For each mistake it reports the place and the right form.
//
// One table (settings.go) names every setting. A setting called max-body is the
// flag --max-body, the variable RSHUB_MAX_BODY and the key `max-body:` of the
// file. A name that is not in the table is an error, and never ignored.
//
// The package reads the files that settings name (secrets, publishers,
// certificates), changes the publishers file for `rshub token`, and touches no other
// file. internal/program/app uses its Config, and `rshub config show` its Origins.
package config

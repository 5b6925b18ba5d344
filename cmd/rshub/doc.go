// Command rshub is a WebSub hub for ResourceSync change notifications, and what
// its operator needs: `rshub serve` runs the hub. The other commands inspect a running
// hub, documents and settings, and manage publishers. See `rshub --help`.
//
// The package turns arguments and an environment into an exit code. The hub is in
// internal/program/app, its settings are in internal/program/config, and most other
// commands in internal/program/cli.
package main

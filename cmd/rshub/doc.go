// Command rshub is a WebSub hub for ResourceSync change notifications, and what
// its operator needs: `rshub serve` runs the hub, the other commands look at a
// running one, at documents and at settings, and say who may publish. See `rshub
// --help`.
//
// The package takes arguments and an environment in and gives an exit code out.
// What a hub is it leaves to internal/program/app, what settings are to internal/program/config
// and the other commands to internal/program/cli.
package main

// Command rspub makes a folder a ResourceSync Source: `rspub serve` publishes it with every
// document and pushes its changes to hubs, `rspub build` writes the documents for another web
// server, `rspub publish` posts one notification and `rspub check` examines any Source. See
// `rspub --help`.
//
// The package turns arguments into an exit code. Package publisher/source is the Source, package
// publisher posts its notifications, and internal/engine/examine checks Sources.
package main

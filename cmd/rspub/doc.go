// Command rspub makes a ResourceSync Source of a folder: `rspub serve` publishes
// it with every document and pushes its changes to hubs, `rspub build` writes the
// documents for another web server, `rspub publish` posts one notification and
// `rspub check` examines any Source. See `rspub --help`.
//
// The package takes arguments in and gives an exit code out. What a Source is it
// leaves to package publisher/source, what is posted to package publisher, and
// what is right and wrong with a Source to internal/engine/examine.
package main

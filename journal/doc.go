// Package journal has the types of the hub's journal: the Entry that a Source's
// notification becomes, the Head of a topic, the Cursor of a subscription, and the rule
// that merges two cursors. It also has the interfaces that a store implements.
//
// A topic has one append-only journal of accepted notifications. The hub
// appends to it, delivery reads from it, and each subscription's cursor says
// how far delivery got. The package does no I/O and starts no goroutine: what
// it decides is decided from its arguments alone, time included, so that every
// store answers alike.
//
// Data comes in from package hub, through Appender, and goes on to package
// delivery, through Reader and Watcher. Package hub also stores here which topics were
// pinged (Pings). Restorer moves topics between stores. Notebook and Shelf store small
// things that all hubs share.
package journal

// Package demo runs a hub, a Source and a Destination in one process on loopback,
// for people who want to see the whole chain work: a change in one folder shows in the
// other a moment later, and a line says how it got there.
//
// It combines packages internal/program/app, publisher/source and subscriber/destination
// as their commands do, and adds only the lines.
package demo

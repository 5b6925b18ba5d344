// Package demo runs a hub, a Source and a Destination in one process on loopback,
// for people who want to see the whole chain work: what they change in one folder
// shows in the other a moment later, and a line tells how it got there.
//
// It puts together packages internal/program/app, publisher/source and
// subscriber/destination as their commands do, and adds nothing but the lines.
package demo

// Package transfer writes what a store holds as JSON lines, and reads them into a store. With the
// retained notifications and their bodies the lines are a backup. Without them they are an
// export, which moves topics and subscriptions from the embedded store to Redis and back.
//
// The first line says what the file is. The last one counts the others, which shows whether the
// file was cut short. Between them is one line for each notification, topic, waiting ping,
// subscription and request (lines.go). The notifications of a topic come right before the topic.
//
// [Export] reads from a store, [Check] validates a file by itself, and [Import] merges it into a
// store. Merging never replaces newer data with older data, and the same file again changes
// nothing.
//
// The package knows the nouns and package seal, and no store. Commands reach it
// through internal/program/app.
package transfer

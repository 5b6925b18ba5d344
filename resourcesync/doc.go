// Package resourcesync reads ResourceSync documents: the change notifications
// and framework notifications that a Source publishes through a hub.
//
// CheckNotification passes once over a whole document and applies every rule
// of the Change Notification and Framework Notification specifications
// (version 1.0.1); NotificationReader goes over the same code and hands out the
// entries one by one. Both read as a stream through a small window, so memory
// does not grow with the document. ParseDatetime and FormatDatetime handle W3C
// datetimes.
//
// Reading is strict about XML and tolerant about ResourceSync. The scanner
// refuses whatever is not namespace-well-formed XML 1.0 in UTF-8, any DTD and any
// entity beyond the five predefined ones. The reader accepts legacy
// capabilities, rs elements in any order, and foreign elements and attributes.
// Each refusal is an *Error with the rule, the line and the column.
//
// The package knows the standard library alone, does no network or file I/O,
// starts no goroutine and logs nothing. What it learns goes to package
// validate, which decides whether a notification may enter the hub's journal. A
// Source may check with it what it sends, a Destination read what it gets.
package resourcesync

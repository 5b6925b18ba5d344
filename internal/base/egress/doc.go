// Package egress is the one HTTP client with which this module calls hosts that
// somebody else named: callbacks, topics, hubs.
//
// It decides where a connection may go, at the moment of dialling, on the very
// address that is dialled; so a name that resolves to something else the second
// time gains nothing. Through a proxy it decides on addresses in URLs alone, and
// names are the proxy's to judge. It bounds what a foreign host can cost: time to
// connect, header bytes, body bytes (ReadBody), idle connections, and through
// Budget the number of requests that somebody can make the hub send to a third
// party.
//
// It may touch the network and nothing else: no file, no environment variable,
// no log. Answers go back to the caller unread; Classify says what kind of
// failure an error is.
package egress

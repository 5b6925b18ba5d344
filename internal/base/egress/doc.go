// Package egress is the one HTTP client with which this module calls hosts that
// somebody else named: callbacks, topics, hubs.
//
// It checks the very address that is dialled, at the moment of dialling, so a name that
// resolves to another address the second time gains nothing. Through a proxy it checks only
// addresses in URLs, and the proxy has to check names. It bounds what a foreign host can
// cost: time to connect, header bytes, body bytes (ReadBody), idle connections and, with
// Budget, the number of requests that somebody can make the hub send to a third party.
//
// Do sends any request, with net/http. Post makes the POSTs of deliveries over connections of
// package post. Both dial through the same guard.
//
// It uses the network and nothing else: no file, no environment variable, no log. It returns
// answers unread; Classify says what kind of failure an error is.
package egress

// Package page has tests that look at the operator's page as a person does: in a real
// Chromium, with and without JavaScript, on hubs that are well and on hubs that are not.
// It is a module of its own, so that what it needs to drive a browser stays out of the hub's
// dependencies. `make page` runs it.
//
// Every visit takes pictures, which -pictures keeps. Look at each by itself and ask what is
// wrong with this hub: what the picture does not tell is a defect of the page.
package page

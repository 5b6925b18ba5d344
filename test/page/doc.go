// Package page has tests that look at the operator's page as a person does: in a real
// Chromium, with and without JavaScript, on healthy hubs and on hubs with trouble. It is a separate
// module, so that the hub does not depend on what drives a browser. `make page` runs it.
//
// Every visit takes pictures, which -pictures keeps. Look at each by itself and ask what is
// wrong with this hub. If the picture does not show it, the page has a defect.
package page

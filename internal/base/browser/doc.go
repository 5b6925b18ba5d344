// Package browser distinguishes requests that a web page makes a browser send from those
// that a program sends.
//
// A page of a stranger can make a visitor's browser send a form to any listener that the
// visitor can reach. The page cannot read the answer, but does not need it to do harm. Both
// listeners check requests here before they carry them out, and answer 403 to those that
// fail. Both set the headers of Protect, which keep a browser from making more of an answer.
package browser

// Package browser tells the requests that a web page had somebody's browser send from
// those that a program sends.
//
// Whoever can reach a listener that strangers cannot, carries strangers to it: any page
// that they visit can have their browser send a form there, and read nothing of the
// answer, but need nothing of it either. Both listeners ask here before they carry a
// request out. It touches nothing; what it answers goes into a 403.
package browser

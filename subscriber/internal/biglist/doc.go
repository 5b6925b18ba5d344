// Package biglist reads lists that may have more entries than the protocol allows.
//
// Some Sources publish lists of over 50,000 entries. Whoever lets them in raises the bytes
// of the documents and the manifests of packages with them; here is how far, what an error
// then says, and who is warned. It touches no network and no file: subscriber and
// subscriber/destination give it the readers, and the warnings go to their log.
package biglist

// Package post makes HTTP/1.1 POSTs of bodies that are in memory, many of them and as cheaply as
// possible. A Pool does so over its own connections. HTTP does so with another client of
// net/http, for what a Pool does not do: proxies, and URLs in unusual forms (Plain).
//
// # A Pool
//
// The goroutine that calls Pool.Post writes the request and reads the answer itself. Only a body of
// more than oneWrite bytes has a second goroutine that writes it, so that an answer that comes
// early is seen. It ends before Post returns. An idle connection has no goroutine: before it is used
// again, and now and then, the Pool looks whether the other side closed it or sent something.
//
// What a delivery costs beside the work of the kernel is small, so that what is saved counts: a system call
// (line.ask), and to register each exchange with its context (Scope).
//
// Post never follows a redirect, never decompresses, and reads no more of an answer than it is
// asked to. The connections come from a function of the caller, which decides where one may lead.
//
// # What a Pool decides differently than net/http
//
// FuzzAnswers compares the two. What an answer means, its status or that it is none, is the same for
// both, with these exceptions, each the safer one:
//
//	answer                                        net/http               Pool
//	version other than HTTP/1.x                   its status             an error
//	status of other than three digits, or < 100   its status             an error
//	complete before all of the request was read,
//	then the connection is reset                  its status or an error its status
//	before the request is written, on a new       an error or its
//	connection                                    status                 its status
//
// A connection is used again only after an answer that leaves no doubt where it ends. So a Pool
// closes it also where net/http keeps it: after a header with a line that ends without CR, that is
// folded, or has a space before its colon; with Transfer-Encoding and Content-Length both, or
// Content-Length twice; and after a body in chunks that are not written by the letter of RFC 9112.
//
// A connection that the other side closed while it was idle is noticed within some seconds and
// not at once, and is not used any more in any case.
package post

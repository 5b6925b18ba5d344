// Package negotiate reads which forms of an answer a client accepts: the headers Accept and
// Accept-Encoding (RFC 9110, 12.5).
package negotiate

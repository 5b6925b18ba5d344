package web

import (
	"fmt"
	"net/http"
	"strings"
)

// CheckCoding returns an error if the answer to a request for a document has a content coding that no such request
// asks for. Gzip is none of these: readers recognise it by its first bytes.
func CheckCoding(header http.Header) error {
	for _, coding := range header.Values("Content-Encoding") {
		switch strings.ToLower(coding) {
		case "", "identity", "gzip", "x-gzip":
		default:
			return fmt.Errorf("the answer has Content-Encoding %.100q, which was not requested; send the document as it is, or as gzip", coding)
		}
	}
	return nil
}

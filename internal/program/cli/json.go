package cli

import (
	"encoding/json"
	"io"
)

// WriteJSON writes v as JSON in one line. The & of URLs stays as it is.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

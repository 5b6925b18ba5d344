package catalogue

import _ "embed" // for schema.json

// Schema is the JSON Schema (2020-12) of a line.
//
//go:embed schema.json
var Schema []byte

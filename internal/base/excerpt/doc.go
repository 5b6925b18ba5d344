// Package excerpt cuts texts from elsewhere, which anyone may have made long, for people to read.
package excerpt

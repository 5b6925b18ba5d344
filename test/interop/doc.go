// Package interop runs programs of other makes against rshub, rspub and rssub, and
// these against them: clients, libraries, parsers, and the web servers that stand in
// front. `make interop` runs it, docs/interoperability.md has its results, and without
// the flag -interop its rows are skipped.
package interop

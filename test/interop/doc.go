// Package interop runs other programs against rshub, rspub and rssub: clients, libraries, parsers,
// and the web servers that stand in front. `make interop` runs it, and docs/interoperability.md has
// its results. Without the flag -interop its rows are skipped.
package interop

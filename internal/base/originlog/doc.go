// Package originlog records where the files of a copy come from, in a file that other
// processes may read while it is written: JSON Lines, of which the last one about a path
// counts. A Log writes it, and a Reader follows it with a few bytes of memory for each file.
package originlog

// Package atomicfile replaces a file whole or not at all: it writes the content beside
// it, syncs that, renames it, and syncs the folder. A reader sees the old content or
// the new one. A process that is killed meanwhile leaves the old file, and perhaps one
// beside it, whose name ends with Suffix or is of Options.Temp.
package atomicfile

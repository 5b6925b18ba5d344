// Command rssub is a ResourceSync Destination: `rssub sync` and `rssub follow` keep
// a copy of a Source, `rssub audit` proves that it is in sync, and `rssub listen`
// hands the notifications of any topic to other programs. See `rssub --help`.
//
// The package takes arguments in and gives an exit code out. What a copy is it
// leaves to package subscriber/destination, and what is received to package
// subscriber.
package main

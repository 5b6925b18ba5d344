// Package catalogue reads and writes catalogues: what resources a repository has, or which of them have
// changed, as JSON Lines. docs/publisher.md describes the format, and schema.json has it for
// programs.
//
// A Reader yields the lines of a catalogue one by one. A line that is wrong is a *LineError, and the
// lines after it can be read. A Writer is for programs that export their catalogue. Package
// publisher/source publishes what a catalogue has.
//
// The package imports resourcesync and internal/base/strictjson.
package catalogue

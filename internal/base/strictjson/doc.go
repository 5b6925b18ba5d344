// Package strictjson reads JSON more strictly than encoding/json does: it is UTF-8, each name of an object is
// one that is known, written exactly so, and stands once, and nothing follows. A null is as if the field were
// absent. Errors name the field, and what it has to be.
//
// The text is read once it is known to be JSON. So a mistake in one field does not keep the others from being
// read.
//
// The package imports internal/base/nearest.
package strictjson

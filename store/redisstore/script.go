package redisstore

import "github.com/redis/go-redis/v9"

// side says what Redis does with a script while it holds more than its maxmemory.
// The package comment says which writes belong on which side.
type side string

// The sides. Each begins the script with the flags that make Redis keep to it.
// Redis looks before the script runs, so that a refused one wrote nothing.
const (
	// reads writes nothing, and always runs.
	reads side = "#!lua flags=no-writes,allow-oom"
	// bounded writes no more than what is stored already makes room for. It always
	// runs.
	bounded side = "#!lua flags=allow-oom"
	// grows stores something new, so Redis refuses it: the error wraps
	// journal.ErrFull.
	grows side = "#!lua"
)

// scripts are all scripts of this package, for the tests.
var scripts = map[*redis.Script]side{}

// newScript makes a script of its source. Each is one variable, with its KEYS,
// ARGV and results documented. All of its KEYS are in one slot.
//
// A script may run twice for one call, as the client sends it again where the
// answer got lost; it has to recognise that, or to do no harm.
func newScript(of side, source string) *redis.Script {
	script := redis.NewScript(string(of) + "\n" + source)
	scripts[script] = of
	return script
}

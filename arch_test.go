package rshub_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rshub/rshub"

// Third-party modules by the names that the table uses.
var modules = map[string]string{
	"bbolt":       "go.etcd.io/bbolt",
	"compress":    "github.com/klauspost/compress",
	"cobra":       "github.com/spf13/cobra",
	"fsnotify":    "github.com/fsnotify/fsnotify",
	"go-redis":    "github.com/redis/go-redis/v9",
	"lru":         "github.com/hashicorp/golang-lru/v2",
	"mux":         "github.com/gorilla/mux",
	"otel":        "go.opentelemetry.io/otel",
	"pflag":       "github.com/spf13/pflag",
	"progressbar": "github.com/schollz/progressbar/v3",
	"prometheus":  "github.com/prometheus",
	"rapid":       "pgregory.net/rapid",
	"go-cmp":      "github.com/google/go-cmp",
	"ssrf":        "code.dny.dev/ssrf",
	"testscript":  "github.com/rogpeppe/go-internal/testscript",
	"uuid":        "github.com/google/uuid",
	"xnet":        "golang.org/x/net",
	"yaml":        "go.yaml.in/yaml/v3",
	"zap":         "go.uber.org/zap",
}

// free may be imported by every package above layer 0.
var free = []string{"golang.org/x", "github.com/hashicorp/golang-lru/v2", "github.com/cenkalti/backoff/v5"}

// room is a package: its layer, the packages of this module that it may import,
// and the third-party modules.
type room struct {
	layer string // ordered as strings
	may   string
	third string
}

// table is the import table of docs/architecture.md. A package may be in it
// before it exists. Whoever may import journal may name the type of its ids,
// which is uuid's.
var table = map[string]room{
	// xnet for the links of HTML pages, which no XML parser reads.
	"resourcesync": {layer: "0", third: "xnet"},
	"websub":       {layer: "0"},
	"journal":      {layer: "0", third: "uuid"},
	// xnet for what may be in a header.
	"internal/base/post":      {layer: "0", third: "xnet"},
	"internal/base/egress":    {layer: "0a", may: "internal/base/post", third: "lru ssrf"},
	"internal/base/web":       {layer: "0b", may: "internal/base/egress"},
	"internal/base/browser":   {layer: "0"},
	"internal/base/fairqueue": {layer: "0"},
	"internal/base/clock":     {layer: "0"},
	"internal/base/sse":       {layer: "0"},
	"internal/base/disk":      {layer: "0b", may: "internal/base/atomicfile internal/base/quantity"},
	"store/seal":              {layer: "0"},
	// Files that are replaced whole or not at all, and durable databases in one file.
	"internal/base/atomicfile": {layer: "0"},
	"internal/base/boltfile":   {layer: "0b", may: "internal/base/atomicfile", third: "bbolt"},
	// Where the files of a copy come from, for a Source over it.
	"internal/base/originlog": {layer: "0b", may: "internal/base/atomicfile"},
	// Sizes, shares and times as people write them.
	"internal/base/quantity": {layer: "0"},
	// Files of keys and values, with the line of everything that is wrong.
	"internal/base/yamlfile":  {layer: "0b", may: "internal/base/nearest", third: "yaml"},
	"internal/program/config": {layer: "3", may: "internal/base/atomicfile internal/base/quantity internal/base/nearest internal/base/yamlfile", third: "yaml pflag"},
	// The log of the three commands.
	"internal/base/logs": {layer: "0", third: "zap"},
	// xnet for the text of HTML pages.
	"internal/base/excerpt": {layer: "0", third: "xnet"},
	// What somebody meant who wrote a name that does not exist.
	"internal/base/nearest":    {layer: "0"},
	"internal/base/strictjson": {layer: "0b", may: "internal/base/excerpt internal/base/nearest"},
	// Which of the lines about strangers go to a log.
	"internal/base/quiet": {layer: "0a"},
	// How requests come in, to all three commands.
	"internal/base/ingress": {layer: "0b", may: "internal/base/quiet", third: "uuid"},
	// Lists of more entries than the protocol allows, for both parts of a Destination.
	"subscriber/internal/biglist": {layer: "0b", may: "resourcesync"},

	"validate":            {layer: "1", may: "resourcesync websub journal internal/base/egress internal/base/excerpt internal/base/web", third: "uuid"},
	"subscriptions":       {layer: "1b", may: "validate websub journal internal/base/clock internal/base/egress internal/base/fairqueue internal/base/web", third: "uuid"},
	"cluster":             {layer: "1", may: "internal/base/clock"},
	"publisher/catalogue": {layer: "1", may: "resourcesync internal/base/strictjson"},
	"publisher":           {layer: "1", may: "resourcesync websub internal/base/atomicfile internal/base/boltfile internal/base/disk internal/base/egress internal/base/excerpt internal/base/web internal/base/clock"},
	"subscriber":          {layer: "1", may: "resourcesync websub subscriber/internal/biglist internal/base/atomicfile internal/base/boltfile internal/base/disk internal/base/egress internal/base/excerpt internal/base/sse internal/base/web internal/base/clock internal/base/quiet"},
	// A Source over a folder, and the copy of one: the reference ends as a whole.
	"publisher/source": {layer: "1b", may: "internal/base/negotiate internal/base/originlog publisher publisher/catalogue internal/base/web resourcesync websub internal/base/atomicfile internal/base/boltfile internal/base/disk internal/base/clock internal/base/nearest internal/base/yamlfile", third: "compress fsnotify yaml"},
	// How applications in other languages hand over changes.
	"publisher/relay":        {layer: "1c", may: "publisher publisher/source resourcesync internal/base/browser internal/base/ingress internal/base/strictjson internal/base/web"},
	"subscriber/destination": {layer: "1b", may: "subscriber validate resourcesync websub subscriber/internal/biglist internal/base/atomicfile internal/base/boltfile internal/base/disk internal/base/originlog internal/base/egress internal/base/web internal/base/quantity internal/base/clock"},
	// What rspub check says of a Source, and rshub validate of documents.
	"internal/engine/examine": {layer: "1", may: "resourcesync websub internal/base/egress internal/base/web internal/base/quantity internal/base/clock"},

	// Which forms of an answer a client accepts.
	"internal/base/negotiate": {layer: "0"},
	// The journal read back over HTTP.
	"hub/history": {layer: "1", may: "resourcesync journal internal/base/negotiate", third: "uuid zap"},

	"hub":              {layer: "2", may: "hub/history internal/base/negotiate websub validate subscriptions journal internal/base/browser internal/base/clock internal/base/egress internal/base/excerpt internal/base/fairqueue internal/base/ingress internal/base/quiet", third: "uuid zap"},
	"delivery":         {layer: "2", may: "websub subscriptions journal internal/base/clock internal/base/egress internal/base/post internal/base/web", third: "zap uuid lru"},
	"store/embedstore": {layer: "2", may: "subscriptions journal cluster internal/base/atomicfile internal/base/boltfile internal/base/disk store/seal", third: "uuid"},
	"store/redisstore": {layer: "2", may: "subscriptions journal cluster store/seal internal/base/clock", third: "go-redis uuid"},
	"store/storetest":  {layer: "2", may: "websub subscriptions journal cluster store/seal", third: "rapid go-cmp uuid"},
	// uuid to tell the ids of notifications from others; resourcesync for the words of changes.
	"admin/ui": {layer: "2b", may: "admin internal/base/excerpt journal resourcesync internal/base/quantity", third: "uuid"},
	"admin":    {layer: "2", may: "subscriptions validate journal internal/base/browser internal/base/ingress internal/base/quantity internal/base/quiet", third: "mux zap uuid"},

	// Metrics of any program.
	"internal/engine/figures":   {layer: "2", third: "prometheus"},
	"internal/engine/telemetry": {layer: "3", may: "admin delivery hub hub/history internal/base/egress internal/engine/figures journal subscriptions", third: "zap prometheus otel uuid"},
	"internal/program/app":      {layer: "3a", may: "hub/history admin admin/ui cluster delivery hub internal/base/atomicfile internal/base/clock internal/base/disk internal/base/egress internal/base/excerpt internal/base/ingress internal/base/logs internal/base/quiet internal/engine/telemetry internal/engine/transfer internal/program/config journal store/embedstore store/redisstore store/seal subscriptions validate websub", third: "zap uuid"},
	// websub for the callback that people try a hub out with.
	"internal/program/cli":  {layer: "3b", may: "admin internal/base/atomicfile internal/engine/figures internal/program/config internal/base/clock resourcesync websub internal/base/egress internal/base/excerpt internal/base/web internal/base/ingress internal/base/logs internal/base/quantity internal/engine/examine internal/base/nearest", third: "cobra pflag progressbar prometheus uuid"},
	"internal/program/demo": {layer: "3b", may: "internal/program/app internal/program/config internal/base/disk internal/base/egress resourcesync publisher publisher/source subscriber/destination internal/base/quantity internal/base/clock", third: "zap"},
	// Export and import of what a store holds.
	"internal/engine/transfer": {layer: "2b", may: "subscriptions journal store/seal internal/base/quantity", third: "uuid"},

	// zap, because only the command knows whether it writes to a terminal; pflag,
	// because the flags of cobra's commands are of its types.
	"cmd/rshub": {layer: "4", may: "subscriber resourcesync internal/base/egress internal/base/atomicfile internal/base/logs internal/base/quantity internal/program/app internal/program/config internal/program/cli internal/program/demo", third: "cobra zap"},
	"cmd/rspub": {layer: "4", may: "admin internal/base/disk internal/engine/figures publisher publisher/relay publisher/source resourcesync websub internal/base/egress internal/base/web internal/base/ingress internal/base/quantity internal/engine/examine internal/base/nearest internal/program/cli internal/base/clock", third: "cobra pflag prometheus"},
	"cmd/rssub": {layer: "4", may: "internal/base/excerpt admin internal/base/disk internal/base/ingress internal/engine/figures internal/program/config subscriber subscriber/destination resourcesync websub internal/base/egress internal/base/quantity internal/program/cli internal/base/clock", third: "cobra pflag prometheus"},

	// Ports for the servers of tests, listeners without any, the commands, and real Redis servers.
	"test/draws":     {layer: "3"},
	"test/ports":     {layer: "3"},
	"test/pipes":     {layer: "3"},
	"test/flips":     {layer: "3"},
	"test/programs":  {layer: "3"},
	"test/scripts":   {layer: "3b", may: "test/ports", third: "testscript"},
	"test/redistest": {layer: "4", may: "test/ports", third: "go-redis"},
	"test/e2e":       {layer: "4"},
	"test/bench":     {layer: "4"},
	"test/image":     {layer: "4"},
	"test/packages":  {layer: "4"},
	"test/interop":   {layer: "4"},
	"test/units":     {layer: "4"},
	"test/docs":      {layer: "4"},
	"test/measure":   {layer: "4"},
	"test/lockshare": {layer: "0"},
	"test/scale":     {layer: "2", may: "cluster"},
	"test/corpus":    {layer: "4"},
}

// mayImport lists the packages of this module that r may import.
func (r room) mayImport() []string { return strings.Fields(r.may) }

// within reports whether path is a package of one of the modules.
func within(path string, in []string) bool {
	return slices.ContainsFunc(in, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// judge returns what is wrong with the imports of a package.
func judge(pkg string, imports []string) []string {
	r, ok := table[pkg]
	if !ok {
		return []string{pkg + " is not in the table: find it a room, or put its code where it belongs"}
	}
	var third []string
	for _, name := range strings.Fields(r.third) {
		third = append(third, modules[name])
	}
	if r.layer > "0" {
		third = append(third, free...)
	}
	var wrong []string
	for _, path := range imports {
		inside, ours := strings.CutPrefix(path, module+"/")
		host, _, _ := strings.Cut(path, "/")
		switch {
		case path == "C" || ours && !slices.Contains(r.mayImport(), inside):
			wrong = append(wrong, fmt.Sprintf("%s (layer %s) imports %s, which the table does not allow", pkg, r.layer, path))
		case !ours && strings.Contains(host, ".") && !within(path, third):
			wrong = append(wrong, fmt.Sprintf("%s imports the third-party %s, which the table does not allow", pkg, path))
		}
	}
	return wrong
}

// unused returns what the table allows though nothing needs it: rows without a package, imports
// that a package does not have, and modules that no package imports. lists are the imports
// by package.
func unused(table map[string]room, lists map[string][]string) (wrong []string) {
	imported := func(path string) func(pkg string) bool {
		return func(pkg string) bool {
			return slices.ContainsFunc(lists[pkg], func(i string) bool { return within(i, []string{path}) })
		}
	}
	all := slices.Sorted(maps.Keys(lists))
	for pkg, r := range table {
		if _, ok := lists[pkg]; !ok {
			wrong = append(wrong, fmt.Sprintf("the table has %s, which does not exist", pkg))
			continue
		}
		for _, other := range strings.Fields(r.may) {
			if !slices.Contains(lists[pkg], module+"/"+other) {
				wrong = append(wrong, fmt.Sprintf("%s may import %s, and does not: remove it from its row", pkg, other))
			}
		}
		for _, name := range strings.Fields(r.third) {
			if !imported(modules[name])(pkg) {
				wrong = append(wrong, fmt.Sprintf("%s may import %s, and does not: remove it from its row", pkg, name))
			}
		}
	}
	for name, path := range modules {
		if !slices.ContainsFunc(all, imported(path)) {
			wrong = append(wrong, fmt.Sprintf("no package imports the module %s", name))
		}
	}
	for _, path := range free {
		if !slices.ContainsFunc(all, imported(path)) {
			wrong = append(wrong, fmt.Sprintf("no package imports the module %s", path))
		}
	}
	return wrong
}

// unused finds each kind of row that nobody needs.
func TestUnused(t *testing.T) {
	table := map[string]room{
		"hub":    {layer: "2", may: "websub journal", third: "mux"},
		"websub": {layer: "0"},
		"gone":   {layer: "0"},
	}
	lists := map[string][]string{"hub": {"time", module + "/websub"}, "websub": nil}
	for _, path := range modules {
		lists["websub"] = append(lists["websub"], path+"/some")
	}
	lists["websub"] = append(lists["websub"], free[:2]...)
	got := unused(table, lists)
	slices.Sort(got)
	want := []string{
		"hub may import journal, and does not: remove it from its row",
		"hub may import mux, and does not: remove it from its row",
		"no package imports the module " + free[2],
		"the table has gone, which does not exist",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Every package is in the table and imports only what the table allows, and the table allows
// nothing that no package needs. Tests may import what they like.
func TestImports(t *testing.T) {
	lookAtTheTree(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	seen, lists := 0, make(map[string][]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; seen++ {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == module {
			continue // the root holds tests alone
		}
		pkg := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, wrong := range judge(pkg, p.Imports) {
			t.Error(wrong)
		}
		lists[pkg] = p.Imports
	}
	for _, wrong := range unused(table, lists) {
		t.Error(wrong)
	}
	if seen < 10 {
		t.Errorf("go list names %d packages only", seen)
	}
}

// lookAtTheTree reads every folder of the module, so that go test does not
// give a cached result when a file has changed that only go list reads.
func lookAtTheTree(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// floors are the folders of internal, from the ground up. A package on one of them imports
// none above it; packages elsewhere import none of the highest, but for commands and tests.
var floors = []string{"internal/base/", "internal/engine/", "internal/program/"}

// floor is the index in floors of the folder of a package, and 1 for one that is in none
// of them.
func floor(pkg string) int {
	for i, folder := range floors {
		if strings.HasPrefix(pkg, folder) {
			return i
		}
	}
	if strings.HasPrefix(pkg, "cmd/") || strings.HasPrefix(pkg, "test/") {
		return len(floors)
	}
	return 1
}

// The table itself: no import leads upwards or sideways, so there is no cycle,
// and every name means something.
func TestTable(t *testing.T) {
	for pkg, r := range table {
		for _, other := range r.mayImport() {
			if o, ok := table[other]; !ok || o.layer >= r.layer {
				t.Errorf("%s (layer %s) may import %s (layer %q), which is not below it", pkg, r.layer, other, o.layer)
			}
			if floor(other) > floor(pkg) {
				t.Errorf("%s may import %s, which is on a floor above it", pkg, other)
			}
		}
		for _, name := range strings.Fields(r.third) {
			if modules[name] == "" {
				t.Errorf("%s may import %s, which is no known module", pkg, name)
			}
		}
	}
}

// docs/architecture.md shows each package that there is, in its layer, and no
// other; packages of tests it names where it likes.
func TestDocumentHasTheTable(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| ([0-9]) \\| `([a-z/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		shown[row[2]] = row[1]
	}
	for pkg, r := range table {
		layer, ok := shown[pkg]
		delete(shown, pkg)
		_, err := os.Stat(filepath.Join(filepath.FromSlash(pkg), "doc.go"))
		switch there := err == nil; {
		case ok && (!there || layer != r.layer[:1]):
			t.Errorf("docs/architecture.md has %s in layer %s; it is of layer %s, and it is %t that it exists", pkg, layer, r.layer, there)
		case !ok && there && !strings.HasPrefix(pkg, "test/") && pkg != "store/storetest":
			t.Errorf("docs/architecture.md does not have %s", pkg)
		}
	}
	for pkg := range shown {
		t.Errorf("docs/architecture.md has %s, which is not in the table", pkg)
	}
}

// The judge finds each kind of offence.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		pkg, path string
		allowed   bool
	}{
		{"journal", "time", true},
		{"journal", "github.com/google/uuid", true},
		{"journal", "golang.org/x/sync/errgroup", false},
		{"journal", module + "/websub", false},
		{"hub", module + "/delivery", false},
		{"hub", "golang.org/x/time/rate", true},
		{"hub", "go.uber.org/zap/zapcore", true},
		{"hub", "go.uber.org/zapper", false},
		{"hub", "go.etcd.io/bbolt", false},
		{"internal/program/app", module + "/store/embedstore", true},
		{"internal/program/app", module + "/store/storetest", false},
		{"internal/program/app", module + "/internal/program/cli", false},
		{"websub", "C", false},
		{"internal/util", "time", false},
	} {
		if wrong := judge(tc.pkg, []string{tc.path}); (len(wrong) == 0) != tc.allowed {
			t.Errorf("%s importing %s: %q", tc.pkg, tc.path, wrong)
		}
	}
}

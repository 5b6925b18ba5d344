package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

var updateOpenAPI = flag.Bool("update", false, "write openapi.json")

// answers says what each call of the API accepts and answers. A string is a media type without a
// schema.
var answers = map[string]struct{ takes, gives any }{
	"GET /api/v1/info":                             {nil, Info{}},
	"GET /api/openapi.json":                        {nil, "application/json"},
	"GET /api/v1/topics":                           {nil, Page[Topic]{}},
	"GET /api/v1/topics/{id}":                      {nil, Topic{}},
	"GET /api/v1/topics/{id}/notifications":        {nil, Page[Notification]{}},
	"POST /api/v1/topics/{id}/reset":               {nil, Topic{}},
	"DELETE /api/v1/topics/{id}":                   {nil, Removal{}},
	"GET /api/v1/subscriptions":                    {nil, Page[Subscription]{}},
	"POST /api/v1/subscriptions":                   {ManyRequest{}, Many{}},
	"GET /api/v1/subscriptions/count":              {nil, Many{}},
	"GET /api/v1/subscriptions/{id}":               {nil, Subscription{}},
	"GET /api/v1/subscriptions/{id}/attempts":      {nil, Page[Attempt]{}},
	"GET /api/v1/subscriptions/{id}/gaps":          {nil, Page[Gap]{}},
	"POST /api/v1/subscriptions/{id}/retry":        {nil, Subscription{}},
	"POST /api/v1/subscriptions/{id}/replay":       {ReplayRequest{}, Replay{}},
	"POST /api/v1/subscriptions/{id}/pause":        {nil, Subscription{}},
	"POST /api/v1/subscriptions/{id}/resume":       {nil, Subscription{}},
	"POST /api/v1/subscriptions/{id}/verify":       {nil, Verification{}},
	"POST /api/v1/subscriptions/{id}/link":         {nil, Link{}},
	"DELETE /api/v1/subscriptions/{id}/link":       {nil, Subscription{}},
	"DELETE /api/v1/subscriptions/{id}":            {nil, Subscription{}},
	"GET /api/v1/notifications/{id}":               {nil, NotificationStatus{}},
	"GET /api/v1/notifications/{id}/document":      {nil, "*/*"},
	"GET /api/v1/notifications/{id}/subscriptions": {nil, Page[Receiver]{}},
	"GET /api/v1/now":                              {nil, Now{}},
	"GET /api/v1/streams":                          {nil, StreamsPage{}},
	"GET /api/v1/refusals":                         {nil, RefusedPage{}},
	"GET /api/v1/publishers":                       {nil, Publishers{}},
	"GET /api/v1/settings":                         {nil, Page[Setting]{}},
	"POST /api/v1/reload":                          {nil, ReloadAnswer{}},
	"POST /api/v1/backup":                          {nil, "application/jsonl"},
	"GET /api/v1/upgrade":                          {nil, Upgrade{}},
	"POST /api/v1/upgrade":                         {nil, Upgrade{}},
}

// parameters are those of queries and paths.
var parameters = map[string]jsonschema.Schema{
	"after":   {Type: "string", Description: "the next of the page before: the list continues after it"},
	"at":      {Type: "string", Format: "date-time", Description: "the one whose interval this instant is in; goes without since and order=newest"},
	"count":   {Type: "boolean", Description: "false: the subscriptions that got it are not counted"},
	"force":   {Type: "boolean", Description: "true: active subscriptions are ended"},
	"host":    {Type: "string", Description: "host of the callback, with its port if it has one"},
	"id":      {Type: "string", Format: "uuid"},
	"kind":    {Type: "string", Description: "kind of refusal"},
	"limit":   {Type: "integer", Minimum: jsonschema.Ptr(1.0), Description: "most items of a page"},
	"outcome": {Type: "string", Enum: []any{"delivered", "pending", "skipped"}},
	"order":   {Type: "string", Enum: []any{"oldest", "newest"}, Description: "which come first; oldest if it is missing; newest goes without since and at"},
	"since":   {Type: "string", Format: "date-time", Description: "what ends after this instant"},
	"state":   {Type: "string", Description: "state of the subscription"},
	"topic":   {Type: "string", Description: "URL of the topic"},
	"before":  {Type: "string", Format: "date-time", Description: "what is older than this instant"},
}

// whole are options with all calls.
func whole(t *testing.T) Options {
	t.Helper()
	return Options{
		Topics: &memory{}, Subscriptions: &memory{}, Info: func(context.Context) Info { return Info{Nodes: []Node{{}}} },
		Streams: func(string, uint64, int) ([]Stream, bool) { return nil, false },
		Fleet:   func(context.Context) Now { return Now{} }, Refusals: func(context.Context) ([]Refused, error) { return nil, nil },
		Publishers: func(context.Context) Publishers { return Publishers{} }, Settings: func() []Setting { return nil },
		Reload: func() []Reloaded { return nil }, Backup: func(context.Context) (*Backup, error) { return nil, ErrBackupRuns },
		Upgrades: &Upgrades{func(context.Context) (Upgrade, error) { return Upgrade{}, nil }, func(context.Context) error { return nil }},
	}
}

// openapi.json describes each call of the table, with the types that it accepts and answers.
// -update writes it.
func TestOpenAPI(t *testing.T) {
	text, err := json.MarshalIndent(describeAPI(t, newAPI(whole(t)).routes), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *updateOpenAPI {
		if err := os.WriteFile("openapi.json", text, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, openAPI) {
		t.Error("openapi.json is not what the calls and their types say; run: go test ./admin -run TestOpenAPI -update")
	}
}

type object = map[string]any

func describeAPI(t *testing.T, routes []route) object {
	t.Helper()
	s := newSchemas(t)
	paths := map[string]object{}
	seen := map[string]bool{}
	problem := object{"description": "the call is refused, or failed", "content": object{"application/problem+json": object{"schema": s.of(reflect.TypeFor[Problem]())}}}
	for _, rt := range routes {
		if !strings.HasPrefix(rt.path, "/api/") {
			continue
		}
		call := rt.method + " " + rt.path
		a, ok := answers[call]
		if !ok {
			t.Errorf("answers lacks %s", call)
			continue
		}
		seen[call] = true
		responses := object{"200": s.answer("done", a.gives), "default": problem}
		if unfinished(a.gives) {
			responses["202"] = s.answer("there is more to do: call again", a.gives)
		}
		op := object{"summary": rt.about, "operationId": operationID(rt), "responses": responses}
		if a.takes != nil {
			op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(a.takes))}}}
		}
		var params []any
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(rt.path, -1) {
			params = append(params, s.parameter(m[1], "path"))
		}
		for _, name := range rt.params {
			params = append(params, s.parameter(name, "query"))
		}
		if params != nil {
			op["parameters"] = params
		}
		if paths[rt.path] == nil {
			paths[rt.path] = object{}
		}
		paths[rt.path][strings.ToLower(rt.method)] = op
	}
	for call := range answers {
		if !seen[call] {
			t.Errorf("there is no call %s", call)
		}
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "rshub operator's API", "version": "1",
			"description": "The API of a hub's operator listener (--admin-listen). Fields may be added; programs should ignore those that they do not know.",
		},
		"paths":    paths,
		"security": []any{object{"token": []any{}}, object{}},
		"components": object{
			"schemas":         s.named,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "the token of --admin-token-file or --admin-readonly-token-file; a hub without one answers this machine alone"}},
		},
	}
}

// operationID names a call, such as getTopicsIdNotifications.
func operationID(rt route) string {
	id := strings.ToLower(rt.method)
	for _, word := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(strings.TrimPrefix(rt.path, "/api/"), "v1/"), -1) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

func unfinished(answer any) bool {
	_, ok := answer.(interface{ unfinished() bool })
	return ok
}

// schemas are the schemas of all types that calls accept and answer, by name.
type schemas struct {
	t     *testing.T
	named map[string]*jsonschema.Schema
	texts map[string]string // what comments say, by "Type" or "Type.Field"
}

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{t, map[string]*jsonschema.Schema{}, map[string]string{}}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../journal/entry.go") {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			for _, spec := range decl.Specs {
				if of, ok := spec.(*ast.TypeSpec); ok {
					s.read(decl, of)
				}
			}
			return false
		})
	}
	return s
}

// read notes what the comments of a type and its fields say.
func (s *schemas) read(decl *ast.GenDecl, spec *ast.TypeSpec) {
	s.texts[spec.Name.Name] = plain(decl.Doc)
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			s.texts[spec.Name.Name+"."+name.Name] = strings.TrimSpace(plain(f.Doc) + " " + plain(f.Comment))
		}
	}
}

func plain(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// of returns the schema of a type: a reference, if the type has a name.
func (s *schemas) of(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t == reflect.TypeFor[uuid.UUID]():
		return &jsonschema.Schema{Type: "string", Format: "uuid"}
	case t.Kind() == reflect.Pointer:
		return s.of(t.Elem())
	case t.Kind() == reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: s.of(t.Elem())}
	case t.Kind() == reflect.Struct:
		name := regexp.MustCompile(`^Page\[.*\.(\w+)\]$`).ReplaceAllString(t.Name(), "${1}Page")
		if s.named[name] == nil {
			s.named[name] = &jsonschema.Schema{} // for types within themselves
			s.named[name] = s.object(t, strings.Split(t.Name(), "[")[0])
		}
		return &jsonschema.Schema{Ref: "#/components/schemas/" + name}
	default:
		schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
		if err != nil {
			s.t.Fatalf("%v: %v", t, err)
		}
		return schema
	}
}

// object returns the schema of a struct.
func (s *schemas) object(t reflect.Type, name string) *jsonschema.Schema {
	out := &jsonschema.Schema{Type: "object", Description: s.texts[name], Properties: map[string]*jsonschema.Schema{}}
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" {
			part := s.object(f.Type, f.Type.Name())
			maps.Copy(out.Properties, part.Properties)
			out.Required = append(out.Required, part.Required...)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		field, options, _ := strings.Cut(tag, ",")
		schema := s.of(f.Type)
		if text := s.texts[name+"."+f.Name]; text != "" {
			schema.Description = text
		}
		out.Properties[field] = schema
		if !strings.Contains(options, "omit") {
			out.Required = append(out.Required, field)
		}
	}
	slices.Sort(out.Required)
	return out
}

func (s *schemas) answer(text string, gives any) object {
	if media, ok := gives.(string); ok {
		return object{"description": text, "content": object{media: object{}}}
	}
	return object{"description": text, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(gives))}}}
}

func (s *schemas) parameter(name, in string) object {
	schema, ok := parameters[name]
	if !ok {
		s.t.Errorf("parameters lacks %q", name)
	}
	return object{"name": name, "in": in, "required": in == "path", "schema": &schema}
}

// The answers of calls that read are as openapi.json says, and have no other fields.
func TestAnswersAreAsDescribed(t *testing.T) {
	m := many()
	topic := m.heads[journal.Partition(journal.TopicID("https://example.org/0"))][0]
	e := journal.Entry{
		Position: 1, Seq: 1, ReceivedAt: noon, From: noon.Add(-time.Hour), Until: noon, Kind: journal.KindChange, MediaType: "application/xml",
		Gap: &journal.Gap{From: noon, Until: noon, Reason: journal.GapSource}, Size: 1, Body: []byte("x"),
	}
	e.ID, _ = journal.NewID(noon, journal.Partition(journal.TopicID(topic.Topic)))
	m.entries = map[string][]journal.Entry{topic.Topic: {e}}
	m.attempts = []subscriptions.Attempt{{At: noon, NotificationID: e.ID, Number: 1, Status: 503}}
	m.addPing(journal.PingRecord{Topic: topic.Topic, Pings: 1, PingedAt: noon})
	o := whole(t)
	o.Topics, o.Subscriptions, o.Pings, o.People, o.Token = m, m, m, nil, nil
	o.Fleet = func(context.Context) Now {
		return Now{Hubs: []HubNow{{Journal: &JournalNow{}, Space: &Space{}}}, FirstLoss: &Loss{}, Failing: []Laggard{{}}, Slowest: []Laggard{{}}, Events: []Event{{}}, FailingHosts: []FailingHost{{}}}
	}
	o.Refusals = func(context.Context) ([]Refused, error) { return []Refused{{At: noon}}, nil }
	o.Publishers = func(context.Context) Publishers { return Publishers{Items: []Publisher{{Name: "library"}}} }
	o.Settings = func() []Setting { return []Setting{{Name: "listen"}} }
	url := start(t, o)

	_, text := send(t, http.MethodGet, url+"/api/openapi.json")
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema *jsonschema.Schema }
			}
		}
		Components struct{ Schemas map[string]*jsonschema.Schema }
	}
	text = strings.ReplaceAll(text, "#/components/schemas/", "#/$defs/")
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, s := range doc.Components.Schemas {
		if s.Properties != nil {
			s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		}
	}
	ids := map[string]string{
		"topics": journal.TopicID(topic.Topic).String(), "notifications": e.ID.String(),
		"subscriptions": subscriptions.ID(topic.Topic, "https://Host0.example:8443/cb?0").String(),
	}
	validated := 0
	for path, methods := range doc.Paths {
		op, reads := methods["get"]
		schema := op.Responses["200"].Content["application/json"].Schema
		if !reads || schema == nil {
			continue
		}
		noun := strings.Split(path, "/")[3]
		resp, body := send(t, http.MethodGet, url+strings.ReplaceAll(path, "{id}", ids[noun]))
		if resp.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, resp.status, body)
			continue
		}
		var answer any
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		root := &jsonschema.Schema{Defs: doc.Components.Schemas, Ref: schema.Ref}
		resolved, err := root.CloneSchemas().Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(answer); err != nil {
			t.Errorf("%s: %v\n%.500s", path, err, body)
		}
		validated++
	}
	if validated < 14 {
		t.Errorf("only %d calls were tried", validated)
	}
}

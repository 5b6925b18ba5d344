package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rshub/rshub/internal/engine/transfer"
	"github.com/rshub/rshub/journal"
	"github.com/rshub/rshub/subscriptions"
)

// A file that was cut short is refused, wherever the cut is.
func TestTruncatedFiles(t *testing.T) {
	file, _ := export(t, sample(t), transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	whole := len(file)
	cuts := []int{whole - 2}
	for at := range file {
		if file[at] == '\n' && at+1 < whole {
			cuts = append(cuts, at+1, at+50)
		}
	}
	for _, cut := range cuts {
		_, err := transfer.Check(t.Context(), bytes.NewReader(file[:cut]), nil, nil)
		if !errors.Is(err, transfer.ErrTruncated) {
			t.Fatalf("cut after %d of %d bytes: %v", cut, whole, err)
		}
	}
	// A missing line in the middle is noticed.
	lines := strings.SplitAfter(string(file), "\n")
	if _, err := transfer.Check(t.Context(), strings.NewReader(strings.Join(append(lines[:3:3], lines[4:]...), "")), nil, nil); !errors.Is(err, transfer.ErrTruncated) {
		t.Errorf("without its 4th line: %v", err)
	}
	if _, err := transfer.Check(t.Context(), strings.NewReader(""), nil, nil); !errors.Is(err, transfer.ErrRefused) {
		t.Errorf("an empty file: %v", err)
	}
}

// Each mistake is reported with its line, and no wrong line is imported.
func TestWrongFiles(t *testing.T) {
	const (
		first = `{"type":"rshub-export","format":1,"store":"s","written_at":"2026-01-01T00:00:00Z","secrets":"plain"}`
		topic = `{"type":"topic","topic":"https://a.example/","kind":"change","last":{"position":"5","nonce":"6","seq":1},"id":"0196f3b0-0000-7000-8000-000000000001","sha256":"` +
			`0000000000000000000000000000000000000000000000000000000000000000","received_at":"2026-01-01T00:00:00Z"}`
		end = `{"type":"end","topics":1,"pings":0,"subscriptions":0}`
	)
	const retained = `"retained":{"trimmed":{"position":"0","nonce":"0","seq":0},"bytes":1},`
	lastByte := fmt.Sprintf("%02x", journal.Partition(journal.TopicID("https://a.example/")))
	notification := `{"type":"notification","topic":"https://a.example/","id":"0196f3b0-0000-7000-8000-0000000000` + lastByte +
		`","position":"5","nonce":"6","seq":1,"received_at":"2026-01-01T00:00:00Z","kind":"change","content_type":"application/xml","sha256":"` +
		`2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","counts":{"created":0,"updated":0,"deleted":0},"body":"eA=="}`
	if _, err := transfer.Check(t.Context(), strings.NewReader(first+"\n"+topic+"\n"+end+"\n"), nil, nil); err != nil {
		t.Fatalf("a right file: %v", err)
	}
	sub := func(more string) string {
		return fmt.Sprintf(`{"type":"subscription","id":"%s","topic":"https://a.example/","callback":"https://b.example/",%s}`, subscriptions.ID("https://a.example/", "https://b.example/"), more)
	}
	force := func(more string) string {
		return sub(`"in_force":{"created_at":"2026-01-01T00:00:00Z","verified_at":"2026-01-01T00:00:00Z","expires_at":"2026-01-01T00:00:00Z","start":{"position":"0","nonce":"0","seq":0},"cursor":{"generation":1,"position":"0","nonce":"0","seq":0}` + more + `}`)
	}
	for name, tc := range map[string]struct{ line, says string }{
		"no JSON":             {`{"type":"topic"`, "not a JSON object"},
		"no object":           {`7`, "not a JSON object"},
		"another type":        {`{"type":"entry"}`, `"entry" is not a type`},
		"an unknown field":    {strings.Replace(topic, `"kind"`, `"color":1,"kind"`, 1), "color"},
		"two in one line":     {topic + topic, "not a JSON object"},
		"no topic":            {strings.Replace(topic, "https://a.example/", "a", 1), "is not a topic"},
		"no kind":             {strings.Replace(topic, "change", "news", 1), "is not a kind"},
		"no entry":            {strings.Replace(topic, `"seq":1`, `"seq":0`, 1), "without an entry"},
		"a number":            {strings.Replace(topic, `"5"`, `5`, 1), "not as rshub writes it"},
		"a short hash":        {strings.Replace(topic, `00"`, `"`, 1), "64"},
		"a negative interval": {strings.Replace(topic, `"last"`, `"from":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z","last"`, 1), "do not form an interval"},
		"a gap of nothing":    {strings.Replace(topic, `"last"`, `"gaps":[{"count":1,"reason":""}],"last"`, 1), "no reason"},
		"no time":             {strings.Replace(topic, `,"received_at":"2026-01-01T00:00:00Z"`, "", 1), "the id or the time"},
		"removed, but there":  {strings.Replace(topic, `"last"`, `"removed":true,"last"`, 1), "exclude each other"},
		"a wrong interval":    {strings.Replace(topic, `"last"`, `"intervals":[{"position":"9","id":"0196f3b0-0000-7000-8000-000000000001","from":"2026-01-01T00:00:00Z","until":"2026-01-02T00:00:00Z"}],"last"`, 1), "contradict each other"},
		"too many intervals":  {strings.Replace(topic, `"last"`, `"intervals":[`+strings.Repeat(`{},`, journal.Remembered)+`{}],"last"`, 1), "intervals"},
		"too many gaps":       {strings.Replace(topic, `"last"`, `"gaps":[`+strings.Repeat(`{"reason":"reset"},`, journal.MaxGaps)+`{"reason":"reset"}],"last"`, 1), "gaps"},
		"half a gap's end":    {strings.Replace(topic, `"last"`, `"gaps":[{"reason":"reset","after":{"position":"9","nonce":"0","seq":0}}],"last"`, 1), "the end of a gap"},
		"no callback":         {strings.Replace(force(""), "https://b.example/", "", 1), "callback is missing"},
		"no time of a lease":  {strings.Replace(force(""), `"verified_at":"2026-01-01T00:00:00Z",`, "", 1), "verified_at"},
		"no id of a request":  {sub(`"request":{"mode":"subscribe","lease_seconds":1,"accepted_at":"2026-01-01T00:00:00Z","start":{"position":"0","nonce":"0","seq":0}}`), "accepted_at of its request"},
		"negative tries":      {sub(`"request":{"id":"0196f3b0-0000-7000-8000-000000000001","mode":"subscribe","tries":-1,"accepted_at":"2026-01-01T00:00:00Z","start":{"position":"0","nonce":"0","seq":0}}`), "not a number of tries"},
		"backwards":           {strings.Replace(notification, `"position"`, `"from":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z","position"`, 1), "do not form an interval"},
		"no URL":              {strings.Replace(notification, "https://a.example/", "a", 1), "is not a topic"},
		"another's id":        {strings.Replace(force(""), "b.example", "c.example", 1), "not that of its topic"},
		"nothing in it":       {sub(`"request":null`), "neither"},
		"a half end":          {force(`,"ended_at":"2026-01-01T00:00:00Z"`), "has only one of"},
		"no reason to end":    {force(`,"ended_at":"2026-01-01T00:00:00Z","end_reason":"tired"`), "is not an end_reason"},
		"no generation":       {strings.Replace(force(""), `"generation":1`, `"generation":0`, 1), "no generation"},
		"half an anchor":      {strings.Replace(force(""), `"position":"0","nonce":"0","seq":0}}`, `"position":"9","nonce":"0","seq":0}}`, 1), "has only one of"},
		"a status":            {strings.Replace(force(""), `"generation":1`, `"generation":1,"last_status":-9`, 1), "is not an HTTP status"},
		"a secret left out":   {force(`,"secret_left_out":true`), "but the first line does not"},
		"no mode":             {sub(`"request":{"id":"0196f3b0-0000-7000-8000-000000000001","mode":"publish","lease_seconds":1,"accepted_at":"2026-01-01T00:00:00Z","start":{"position":"0","nonce":"0","seq":0}}`), "is not a mode"},
		"no lease":            {sub(`"request":{"id":"0196f3b0-0000-7000-8000-000000000001","mode":"subscribe","lease_seconds":-1,"accepted_at":"2026-01-01T00:00:00Z","start":{"position":"0","nonce":"0","seq":0}}`), "is not a lease"},
		"a ping of nothing":   {`{"type":"ping","topic":"https://a.example/"}`, "missing"},
		"after the end":       {end + "\n" + topic, "comes after the last line"},
		"a long word":         {strings.Repeat("x", 1<<20), "not a JSON object"},
		"another id":          {strings.Replace(notification, "0000000000"+lastByte, "000000000000", 1), "is not the id of a notification"},
		"another body":        {strings.Replace(notification, `"eA=="`, `"eQ=="`, 1), "does not have the SHA-256"},
		"a kind of news":      {strings.Replace(notification, "change", "news", 1), "is not a kind"},
		"no seq":              {strings.Replace(notification, `"seq":1`, `"seq":0`, 1), "missing"},
		"without its topic":   {notification + "\n" + force(""), "right order"},
		"of another topic":    {notification + "\n" + strings.Replace(topic, "a.example", "b.example", 1), "right order"},
		"out of order":        {notification + "\n" + notification, "right order"},
		"none of them":        {strings.Replace(topic, `"last"`, retained+`"last"`, 1), "right order"},
		"all trimmed":         {strings.Replace(topic, `"last"`, strings.Replace(retained, `"seq":0`, `"seq":1`, 1)+`"last"`, 1), "retained notifications"},
	} {
		_, err := transfer.Check(t.Context(), strings.NewReader(first+"\n"+topic+"\n"+tc.line+"\n"+end+"\n"), nil, nil)
		var line *transfer.LineError
		want := 3
		if strings.Contains(tc.line, "\n") {
			want = 4
		}
		if !errors.As(err, &line) || line.Line != want || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tc := range map[string]struct{ line, says string }{
		"newer":            {strings.Replace(first, `"format":1`, `"format":3,"program":"v9","mood":"new"`, 1), "v9"},
		"no export":        {`{"topic":"x"}`, "first line"},
		"other secrets":    {strings.Replace(first, "plain", "hidden", 1), "hidden"},
		"a field too much": {strings.Replace(first, `"format":1`, `"format":1,"mood":"new"`, 1), "mood"},
	} {
		if _, err := transfer.Check(t.Context(), strings.NewReader(tc.line+"\n"+end+"\n"), nil, nil); !errors.Is(err, transfer.ErrRefused) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Reading ends after many mistakes.
	_, err := transfer.Check(t.Context(), strings.NewReader(first+"\n"+strings.Repeat("x\n", 1000)), nil, nil)
	if err == nil || strings.Count(err.Error(), "\n") != 20 {
		t.Errorf("a thousand mistakes: %v", err)
	}
}

// Reading ends whatever a file contains. Import accepts each file that Check accepts, and the
// same file again changes nothing.
func FuzzImport(f *testing.F) {
	backup := newMemory()
	backup.publish(f, topicName(0), 3)
	file, _ := export(f, backup, transfer.ExportOptions{Secrets: transfer.SecretsPlain, Notifications: true})
	f.Add(file)
	file, _ = export(f, sample(f), transfer.ExportOptions{Secrets: transfer.SecretsPlain})
	lines := bytes.SplitAfter(file, []byte("\n"))
	for _, some := range [][]byte{lines[6], lines[8], lines[9], lines[10], lines[11], lines[12]} {
		var l struct{ Type string }
		if err := json.Unmarshal(some, &l); err != nil {
			f.Fatal(err)
		}
		counts := map[string]any{"type": "end", "topics": 0, "pings": 0, "subscriptions": 0, l.Type + "s": 1}
		last, err := json.Marshal(counts)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Join([][]byte{lines[0], some, last}, nil))
	}
	f.Add([]byte(`{"type":"rshub-export","format":1,"secrets":"plain"}` + "\n" + `{"type":"end"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		counts, err := transfer.Check(context.Background(), bytes.NewReader(text), nil, nil)
		if err != nil {
			return
		}
		to := newMemory()
		told, err := transfer.Import(context.Background(), bytes.NewReader(text), to, transfer.ImportOptions{})
		if err != nil || told.Counts != counts {
			t.Fatalf("Check lets it through, Import says %+v, %v", told, err)
		}
		again, err := transfer.Import(context.Background(), bytes.NewReader(text), to, transfer.ImportOptions{})
		if err != nil || again.Stored != 0 {
			t.Fatalf("the second time: %+v, %v", again, err)
		}
	})
}

package catalogue_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/rshub/rshub/publisher/catalogue"
	"github.com/rshub/rshub/resourcesync"
)

// oaiPage is what is needed of an answer to ListRecords.
type oaiPage struct {
	Error struct {
		Code string `xml:"code,attr"`
		Text string `xml:",chardata"`
	} `xml:"error"`
	Records []struct {
		Header      oaiHead  `xml:"header"`
		Identifiers []string `xml:"metadata>dc>identifier"`
	} `xml:"ListRecords>record"`
	Token string `xml:"ListRecords>resumptionToken"`
}

type oaiHead struct {
	Status     string `xml:"status,attr"`
	Identifier string `xml:"identifier"`
	Datestamp  string `xml:"datestamp"`
}

// maxPage bounds an answer of a provider.
const maxPage = 64 << 20

// records yields the records of an OAI-PMH provider, such as DSpace or EPrints: each is the Dublin Core record at
// its GetRecord address, and describes the page of the item. It is a source.CatalogueOptions.Entries. Deleted records are
// entries that say so. If the provider fails on the way, the last value is an error, and nothing is deleted.
func records(client *http.Client, provider string) func(ctx context.Context) iter.Seq2[catalogue.Entry, error] {
	return func(ctx context.Context) iter.Seq2[catalogue.Entry, error] {
		return func(yield func(catalogue.Entry, error) bool) {
			query := url.Values{"verb": {"ListRecords"}, "metadataPrefix": {"oai_dc"}}
			for {
				page, err := list(ctx, client, provider+"?"+query.Encode())
				if err != nil {
					yield(catalogue.Entry{}, err)
					return
				}
				for _, r := range page.Records {
					e, err := oaiEntry(provider, &r.Header, r.Identifiers)
					if !yield(e, err) || err != nil {
						return
					}
				}
				token := strings.TrimSpace(page.Token)
				if token == "" {
					return
				}
				if token == query.Get("resumptionToken") {
					yield(catalogue.Entry{}, fmt.Errorf("%s gives the resumption token %q again and again", provider, token))
					return
				}
				query = url.Values{"verb": {"ListRecords"}, "resumptionToken": {token}}
			}
		}
	}
}

func oaiEntry(provider string, h *oaiHead, identifiers []string) (catalogue.Entry, error) {
	at := provider + "?" + url.Values{"verb": {"GetRecord"}, "metadataPrefix": {"oai_dc"}, "identifier": {h.Identifier}}.Encode()
	e := catalogue.Entry{URL: at, Type: "application/xml", Deleted: h.Status == "deleted"}
	for _, id := range identifiers {
		if strings.HasPrefix(id, "http://") || strings.HasPrefix(id, "https://") {
			e.Links = append(e.Links, resourcesync.Link{Rel: "describes", Href: resourcesync.EncodeURI(id)})
		}
	}
	var err error
	e.LastMod, err = resourcesync.ParseDatetime(h.Datestamp)
	return e, err
}

// list asks for a page of records.
func list(ctx context.Context, client *http.Client, at string) (page oaiPage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return page, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		return page, fmt.Errorf("%s answers %d", at, resp.StatusCode)
	}
	if err := xml.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(&page); err != nil {
		return page, fmt.Errorf("%s: %w", at, err)
	}
	if code := page.Error.Code; code != "" && code != "noRecordsMatch" {
		return page, fmt.Errorf("%s: %s: %s", at, code, page.Error.Text)
	}
	return page, nil
}

// provider is a small OAI-PMH provider: two pages, and an item that was deleted.
func provider(w http.ResponseWriter, r *http.Request) {
	record := func(id, status, metadata string) string {
		return fmt.Sprintf(`<record><header%s><identifier>oai:%s</identifier><datestamp>2026-11-25T10:00:00Z</datestamp></header>%s</record>`, status, id, metadata)
	}
	dc := func(id string) string {
		return `<metadata><oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" xmlns:dc="http://purl.org/dc/elements/1.1/">` +
			`<dc:identifier>ISBN 1</dc:identifier><dc:identifier>https://repo.example.org/handle/` + id + `</dc:identifier></oai_dc:dc></metadata>`
	}
	body := `<error code="badResumptionToken">It is too old.</error>`
	switch r.FormValue("resumptionToken") {
	case "":
		body = "<ListRecords>" + record("1", "", dc("1")) + record("2", ` status="deleted"`, "") + "<resumptionToken>next</resumptionToken></ListRecords>"
	case "next":
		body = "<ListRecords>" + record("3", "", dc("3")) + "<resumptionToken/></ListRecords>"
	}
	_, _ = io.WriteString(w, `<?xml version="1.0"?><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">`+body+`</OAI-PMH>`)
}

// A repository with OAI-PMH: its records as a catalogue.
func Example_oaiPMH() {
	server := httptest.NewServer(http.HandlerFunc(provider))
	defer server.Close()

	var out strings.Builder
	w := catalogue.NewWriter(&out)
	for e, err := range records(server.Client(), server.URL+"/oai")(context.Background()) {
		if err = errors.Join(err, w.Write(e)); err != nil {
			fmt.Println(err)
			return // without the end, nothing is deleted
		}
	}
	_ = w.End() // a strings.Builder never fails
	_, _ = io.WriteString(os.Stdout, strings.ReplaceAll(out.String(), server.URL, "https://repo.example.org"))
	// Output:
	// {"url":"https://repo.example.org/oai?identifier=oai%3A1&metadataPrefix=oai_dc&verb=GetRecord","type":"application/xml","lastmod":"2026-11-25T10:00:00Z","links":[{"rel":"describes","href":"https://repo.example.org/handle/1"}]}
	// {"url":"https://repo.example.org/oai?identifier=oai%3A2&metadataPrefix=oai_dc&verb=GetRecord","type":"application/xml","lastmod":"2026-11-25T10:00:00Z","deleted":true}
	// {"url":"https://repo.example.org/oai?identifier=oai%3A3&metadataPrefix=oai_dc&verb=GetRecord","type":"application/xml","lastmod":"2026-11-25T10:00:00Z","links":[{"rel":"describes","href":"https://repo.example.org/handle/3"}]}
	// {"end":true,"count":3}
}

// A provider that fails on the way makes no whole catalogue.
func TestProviderThatFails(t *testing.T) {
	for what, second := range map[string]string{
		"an error": `<OAI-PMH><error code="badResumptionToken">It is too old.</error></OAI-PMH>`, "cut off": `<OAI-PMH><ListRecords>`,
		"the same token again": `<OAI-PMH><ListRecords><resumptionToken>next</resumptionToken></ListRecords></OAI-PMH>`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("resumptionToken") == "" {
				provider(w, r)
				return
			}
			_, _ = io.WriteString(w, second)
		}))
		var last error
		n := 0
		for _, err := range records(server.Client(), server.URL)(t.Context()) {
			n, last = n+1, err
		}
		if n != 3 || last == nil {
			t.Errorf("%s: %d entries, %v", what, n, last)
		}
		server.Close()
	}
}

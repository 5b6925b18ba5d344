package admin

import (
	"context"
	"net/http"
	"slices"
	"testing"
)

// Streams are listed page by page, those of one topic if that is asked for, with the counts of all hubs.
func TestStreams(t *testing.T) {
	all := []Stream{{ID: 3, Topics: []string{"a"}}, {ID: 5, Topics: []string{"a", "b"}}, {ID: 9, Topics: []string{"a"}}}
	base := start(t, Options{
		Streams: func(topic string, after uint64, most int) (list []Stream, more bool) {
			for _, st := range all {
				switch {
				case st.ID <= after || topic != "" && !slices.Contains(st.Topics, topic):
				case len(list) == most:
					return list, true
				default:
					list = append(list, st)
				}
			}
			return list, false
		},
		Fleet: func(context.Context) Now {
			return Now{HubsError: "away", Hubs: []HubNow{{Node: Node{ID: "one"}, Streams: 3}, {Node: Node{ID: "two"}, Streams: 4}}}
		},
	})
	ask := func(query string) StreamsPage {
		_, body := send(t, http.MethodGet, base+"/api/v1/streams"+query)
		return decodeBody[StreamsPage](t, body)
	}
	var got []uint64
	for after := ""; ; {
		page := ask("?limit=2&after=" + after)
		for _, st := range page.Items {
			got = append(got, st.ID)
		}
		if len(page.Hubs) != 2 || page.Hubs[1] != (HubStreams{ID: "two", Streams: 4}) || page.HubsError != "away" {
			t.Errorf("%+v", page)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if !slices.Equal(got, []uint64{3, 5, 9}) {
		t.Errorf("%v", got)
	}
	if page := ask("?topic=b"); len(page.Items) != 1 || page.Items[0].ID != 5 {
		t.Errorf("%+v", page)
	}
	resp, body := send(t, http.MethodGet, base+"/api/v1/streams?after=x")
	wantProblem(t, resp, body, http.StatusBadRequest, "after=x")
}

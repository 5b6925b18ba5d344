package page

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	docsPictures = "../../docs/pictures"
	// maxPicture is how large a picture of the docs may be, in bytes.
	maxPicture = 100_000
	// docsWidth is the width of the window of these pictures.
	docsWidth = 1024
)

// The docs have pictures of the page. With -update they are written anew.
func TestPictures(t *testing.T) {
	ill, lossy := failing(t), gaps(t)
	sub := func(h *hub, callback string) string {
		for _, one := range h.inState("failing", 1) {
			if strings.HasSuffix(one.Callback, callback) {
				return "subscriptions/" + one.ID
			}
		}
		t.Fatalf("nothing fails at %s", callback)
		return ""
	}
	var topics struct{ Items []struct{ ID string } }
	lossy.api("topics", &topics)
	b := open(t, true)
	for name, address := range map[string]string{
		"now": ill.admin + "ui/", "subscription": ill.admin + "ui/" + sub(ill, "/500/indexer"), "topic": lossy.admin + "ui/topics/" + topics.Items[0].ID,
	} {
		b.visit(address)
		b.show(docsWidth, 900)
		ask[any](b, `document.querySelector("pre.answer")?.closest("details").setAttribute("open", ""), null`)
		small := reduced(t, b.picture(docsWidth))
		if len(small) > maxPicture {
			t.Errorf("the picture %s has %d bytes, over %d", name, len(small), maxPicture)
		}
		if !*update {
			continue
		}
		if err := os.MkdirAll(docsPictures, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(docsPictures, name+".png"), small, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// reduced is a picture with at most 160 colors, the most frequent ones.
func reduced(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	area := from.Bounds()
	used := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) } //nolint:errcheck,forcetypeassert // the model converts to this type
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			used[at(x, y)]++
		}
	}
	most := slices.Collect(maps.Keys(used))
	slices.SortFunc(most, func(a, b color.RGBA) int { return cmp.Compare(used[b], used[a]) })
	var colors color.Palette
	for _, c := range most[:min(len(most), 160)] {
		colors = append(colors, c)
	}
	nearest := map[color.RGBA]uint8{}
	to := image.NewPaletted(area, colors)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			c := at(x, y)
			i, known := nearest[c]
			if !known {
				i = uint8(colors.Index(c))
				nearest[c] = i
			}
			to.SetColorIndex(x, y, i)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

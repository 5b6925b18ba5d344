package page

// marker is the name of a variable that the hostile texts try to set.
const marker = "rshubMarker"

// hostile are texts that run, or break out of their box, on a page that does not take care.
var hostile = []string{
	`<script>` + marker + `=1;alert(1)</script>`,
}

// Package ui is the operator's page: what a browser shows below admin.PagePath.
//
// It is made of HTML from embedded templates, with links and forms, and works without
// JavaScript; static/live.js only refreshes figures and sorts tables. The package knows
// nothing of the hub. It gets all that it shows from the API, and passes what a form asks
// for to the API, in the same process and with the role of the request. So the page can do
// nothing that the API cannot, and package admin decides who may do what.
package ui

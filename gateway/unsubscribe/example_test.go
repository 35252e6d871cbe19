package unsubscribe_test

import (
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/gateway/unsubscribe"
)

func Example() {
	secrets := []string{"0123456789abcdef"}
	url := unsubscribe.URL("https://wc.example.com", secrets, unsubscribe.Link{
		Tenant: "acme", User: "ann", Channel: "email", Type: "news",
	})
	token := strings.TrimPrefix(url, "https://wc.example.com"+unsubscribe.Path)

	link, err := unsubscribe.Open(secrets, token)
	fmt.Println(link.User, "wants no", link.Type, "by", link.Channel, err)
	// Output: ann wants no news by email <nil>
}

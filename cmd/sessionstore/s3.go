package main

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/sessionstore/sessionstore/redisstore"
	"github.com/sessionstore/sessionstore/s3store"
)

// openS3 opens s3://bucket/prefix?region=…&endpoint=…&path_style=true.
// Credentials, region and everything else come from where all programs of AWS
// take them, unless the URL says something else.
func openS3(ctx context.Context, _ *app, rest string, _ mode) (*handle, error) {
	given := "s3:" + rest
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		return nil, usagef("%s: not a URL of the form s3://bucket/prefix", redact(given))
	}
	load, options, err := s3Options(u)
	if err != nil {
		return nil, err
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, err
	}
	if c.Region == "" {
		return nil, noRegion(given)
	}
	s, err := s3store.New(s3.NewFromConfig(c, options...), u.Host, &s3store.Options{Prefix: strings.TrimPrefix(u.Path, "/")})
	if err != nil {
		return nil, usagef("%v", err)
	}
	return &handle{store: s3Handle{s}, name: redact(given), close: s.Close}, nil
}

// noRegion: the SDK would say so only in the middle of the first request.
func noRegion(given string) error {
	return usagef("%s: no region is known; add region=… to the URL (any name will do for most servers other than Amazon's) or set AWS_REGION", redact(given))
}

// s3Options takes the parameters out of a URL.
func s3Options(u *url.URL) (load []func(*config.LoadOptions) error, options []func(*s3.Options), err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, usagef("%s: %v", redact(u.String()), err)
	}
	for name, v := range query {
		value := v[0]
		switch name {
		case "region":
			load = append(load, config.WithRegion(value))
		case "endpoint":
			if e, err := url.Parse(value); err != nil || e.Host == "" {
				return nil, nil, usagef("%s: endpoint=%s: write a URL such as http://localhost:9000", redact(u.String()), value)
			}
			options = append(options, func(o *s3.Options) { o.BaseEndpoint = &value })
		case "path_style":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return nil, nil, usagef("%s: path_style=%s: write true or false", redact(u.String()), value)
			}
			options = append(options, func(o *s3.Options) { o.UsePathStyle = on })
		default:
			return nil, nil, usagef("%s: unknown option %q; known are endpoint, region and path_style", redact(u.String()), name)
		}
	}
	return load, options, nil
}

// s3Handle is a store whose Repair reports as the other one does.
type s3Handle struct{ *s3store.Store }

func (h s3Handle) Repair(ctx context.Context, projectKey string) (redisstore.RepairReport, error) {
	r, err := h.Store.Repair(ctx, projectKey)
	return redisstore.RepairReport(r), err
}

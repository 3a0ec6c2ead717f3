package s3store

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// LifecycleRule is a rule for the bucket's lifecycle configuration that deletes
// what this store has written, a number of days after it was written, and what
// versioning keeps of it after a further day. It is for the objects below the
// prefix, and with the tags, of the options.
//
// S3 looks at the age of each object, not of the session. A session that is
// appended to for longer than that loses its beginning, without an error. Let
// days be more than the longest life of a session and the time it is kept
// afterwards, or use [Store.Purge], which deletes whole sessions.
func (s *Store) LifecycleRule(days int32) types.LifecycleRule {
	filter := &types.LifecycleRuleFilter{Prefix: &s.prefix}
	if len(s.tags) > 0 {
		filter = &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{Prefix: &s.prefix, Tags: s.tags}}
	}
	return types.LifecycleRule{
		ID:                             aws.String("sessionstore " + s.prefix),
		Status:                         types.ExpirationStatusEnabled,
		Filter:                         filter,
		Expiration:                     &types.LifecycleExpiration{Days: &days},
		NoncurrentVersionExpiration:    &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(1)},
		AbortIncompleteMultipartUpload: &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(1)},
	}
}

package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	"github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/smithy-go"

	"outbox-dispatcher/internal/operator/doctor"
)

// scheduleTimeout: in a VPC without a way to EventBridge Scheduler the question
// would hang until the function is killed.
const scheduleTimeout = 5 * time.Second

// schedule asks AWS whether the dispatcher's schedule is enabled. An error is a
// few words that say why that cannot be told.
func schedule(ctx context.Context, name string) (doctor.Schedule, error) {
	ctx, cancel := context.WithTimeout(ctx, scheduleTimeout)
	defer cancel()
	cfg, err := awsconfig.LoadDefaultConfig(ctx,
		awsconfig.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(scheduleTimeout)),
		awsconfig.WithRetryMaxAttempts(1))
	if err != nil {
		return doctor.Schedule{}, errors.New("the AWS configuration of this machine cannot be read")
	}
	answer, err := scheduler.NewFromConfig(cfg).GetSchedule(ctx, &scheduler.GetScheduleInput{Name: aws.String(name)})
	if err != nil {
		return doctor.Schedule{}, scheduleError(err)
	}
	return doctor.Schedule{Enabled: answer.State == types.ScheduleStateEnabled, Rate: aws.ToString(answer.ScheduleExpression)}, nil
}

func scheduleError(err error) error {
	var missing *types.ResourceNotFoundException
	var api smithy.APIError
	var response *awshttp.ResponseError
	switch {
	case errors.As(err, &missing):
		return errors.New("there is no schedule of that name")
	case errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException":
		return errors.New("the role lacks scheduler:GetSchedule")
	case errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusBadRequest:
		return errors.New("EventBridge Scheduler answered with an error")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("EventBridge Scheduler cannot be reached from here")
	}
	return errors.New("EventBridge Scheduler cannot be asked from here")
}

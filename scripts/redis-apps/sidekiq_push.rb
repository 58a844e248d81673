# Sends jobs one by one until standard input ends, and says which were taken.
require_relative 'sidekiq_jobs'

$stdout.sync = true
number = 0
until IO.select([$stdin], nil, nil, 0.1)
  number += 1
  begin
    Double.perform_async(number)
    puts number
  rescue Redis::BaseError, SystemCallError, IOError => e
    warn "#{number}: #{e.class} #{e.message}"
  end
end

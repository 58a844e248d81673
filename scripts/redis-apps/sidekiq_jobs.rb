# A job of Sidekiq: each run writes a line to the file RUNS.
require 'sidekiq'

Sidekiq.configure_server { |config| config.redis = { url: ENV.fetch('BROKER') } }
Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch('BROKER') } }

# Doubles a number; every tenth fails once and is retried.
class Double
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  def perform(number)
    File.open(ENV.fetch('RUNS'), 'a') { |runs| runs.write("#{number}\n") }
    marker = "#{ENV.fetch('RUNS')}.#{number}"
    return if number % 10 != 0 || File.exist?(marker)

    File.write(marker, '')
    raise 'the first attempt fails'
  end
end

# 300 jobs, half of them scheduled, which four threads enqueue and a process of ten threads does.
require 'sidekiq'
require 'sidekiq/api'
require 'sidekiq/launcher'
require 'sidekiq/scheduled'

$stdout.sync = true
JOBS = 300
SECONDS = 20
server = { url: "redis://127.0.0.1:#{ENV.fetch('PETREL_PORT')}/0" }
Sidekiq.configure_server { |config| config.redis = server.merge(size: 30) }
Sidekiq.configure_client { |config| config.redis = server.merge(size: 30) }
Sidekiq.logger.level = Logger::ERROR
$results = Queue.new

class Double
  include Sidekiq::Worker
  sidekiq_options retry: false

  def perform(n)
    $results << [n, n * 2]
  end
end

def fail_with(text)
  puts "FAIL #{text}"
  exit! 1
end

(0...JOBS / 2).each { |n| Double.perform_in(0.1, n) }
Double.perform_bulk((JOBS / 2...JOBS).map { |n| [n] }) if Double.respond_to?(:perform_bulk)
(JOBS / 2...JOBS).each { |n| Double.perform_async(n) } unless Double.respond_to?(:perform_bulk)
options = Sidekiq.options.merge(queues: ['default'], concurrency: 10, timeout: 5, tag: 'petrel')
launcher = Sidekiq::Launcher.new(options)
launcher.run
deadline = Time.now + SECONDS
pollers = 4.times.map do
  Thread.new do
    poller = Sidekiq::Scheduled::Enq.new
    until Sidekiq::ScheduledSet.new.size.zero? || Time.now > deadline
      poller.enqueue_jobs(Sidekiq::Scheduled::SETS)
    end
  end
end
pollers.each(&:join)
sleep 0.01 until $results.size >= JOBS || Time.now > deadline
launcher.quiet
results = Array.new($results.size) { $results.pop }.sort
fail_with("after #{SECONDS} s #{results.size} of #{JOBS} jobs are done") if results.size < JOBS
fail_with('a job was done twice') if results != (0...JOBS).map { |n| [n, n * 2] }
stats = Sidekiq::Stats.new
fail_with("#{stats.enqueued} jobs are left") unless stats.enqueued.zero? && stats.scheduled_size.zero?
puts "ok #{JOBS} jobs"
exit! 0

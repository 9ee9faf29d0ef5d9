# A host with a loop of its own, in Ruby: it runs the tools, and `unfazed step` decides.
#     ruby examples/step/client.rb [UNFAZED]
require 'json'
require 'open3'

PARAMETERS = { type: 'object', properties: { item: { type: 'integer' } }, required: ['item'] }.freeze
PRICES = { 7 => '3.50', 42 => '12.50' }.freeze
$runs = Hash.new(0)

# The tool. The first request for an item fails.
def price(item)
  $runs[item] += 1
  raise IOError, 'the shop is busy' if $runs[item] == 1

  PRICES.fetch(item)
end

# Writes a line, and reads the answer to it.
def ask(line)
  $input.puts(JSON.generate(line))
  answer = JSON.parse($output.gets || abort('unfazed has ended'))
  abort(answer['message']) if answer['kind'] == 'error'
  answer['list']
end

# Does a piece of work, and tells what came of it.
def work(directive)
  case directive['directive']
  when 'run_tool' then tell('tool_finished', directive, outcome: run(directive['arguments']))
  when 'wait'
    puts "#{directive['subject']}: attempt #{directive['attempt']} in #{directive['delay'] / 1_000_000} ms"
    sleep(directive['delay'] / 1e9)
    tell('timer_fired', directive)
  when 'ask' then tell('answered', directive, answer: 'none')
  end
end

def run(arguments)
  { outcome: 'ok', data: price(arguments['item']) }
rescue IOError => e
  { outcome: 'failed', failure: { class: 'network_error', message: e.message }, effect: 'not_started' }
end

def tell(event, directive, fields = {})
  ask({ kind: 'event', event: event, work: directive['work'], **fields })
end

policy = File.join(__dir__, 'policy.yaml')
Open3.popen2(ARGV.fetch(0, 'unfazed'), 'step', policy) do |input, output, _process|
  $input, $output = input, output
  ask({ kind: 'hello', v: 1, tools: [{ name: 'price', parameters: PARAMETERS }] })
  due = ask({ kind: 'start', run: 'ruby' })
  calls = [7, 42, 'six'].map { |item| { id: "call_#{item}", name: 'price', arguments: JSON.generate({ item: item }) } }
  due += ask({ kind: 'event', event: 'tools_proposed', calls: calls })
  while (directive = due.shift)
    message = directive['message']
    puts "#{message['call']}: #{message['text']}" if directive['directive'] == 'append'
    due.concat(work(directive) || [])
  end
end

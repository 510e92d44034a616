import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { defaults } from '#config/default.ts'
import { linkFront } from '#services/front/links.ts'
import { eventually } from '../../support/eventually.ts'

test('a front looks up all API keys again when its link to the store closes and when a new link opens', async () => {
  const received: string[] = []
  const links = linkFront(
    { ...defaults, markets: { ...defaults.markets, threads: 1 } },
    {
      log: { warn() {} },
      meters: { reloaded() {}, dropped() {} } as never,
      board: {} as never,
      priceBoard: {} as never,
      authenticator: { mayHaveMissed: () => received.push('authenticator') } as never,
      late: { hub: { mayHaveMissed: () => received.push('sessions') } as never },
      woken() {},
    },
  )
  // The sessions use answers of the authenticator. So when the link to the store opens, the authenticator is notified
  // before the sessions.
  const both = ['authenticator', 'sessions']
  const [first, second] = [new MessageChannel(), new MessageChannel()]
  links.connect('store', first.port1)
  assert.deepEqual(received.splice(0), both)
  first.port2.close()
  await eventually(() => assert.deepEqual(received, both))
  received.length = 0
  links.connect('store', second.port1)
  assert.deepEqual(received.splice(0), both)
  links.close()
  second.port2.close()
})

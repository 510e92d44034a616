import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import { defaults } from '#config/default.ts'
import { linkFront } from '#services/front/links.ts'
import { eventually } from '../../support/eventually.ts'

test('all keys are looked up again when the link to the store ends and when a new one opens', async () => {
  const heard: string[] = []
  const links = linkFront(
    { ...defaults, markets: { ...defaults.markets, threads: 1 } },
    {
      log: { warn() {} },
      meters: { reloaded() {}, dropped() {} } as never,
      board: {} as never,
      priceBoard: {} as never,
      authenticator: { unheard: () => heard.push('authenticator') } as never,
      late: { hub: { unheard: () => heard.push('sessions') } as never },
      woken() {},
    },
  )
  // Threads that answer know it before threads that ask.
  const both = ['authenticator', 'sessions']
  const [first, second] = [new MessageChannel(), new MessageChannel()]
  links.connect('store', first.port1)
  assert.deepEqual(heard.splice(0), both)
  first.port2.close()
  await eventually(() => assert.deepEqual(heard, both))
  heard.length = 0
  links.connect('store', second.port1)
  assert.deepEqual(heard.splice(0), both)
  links.close()
  second.port2.close()
})

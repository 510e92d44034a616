/** Entry point of the trading page: starts the page's subscriptions and renders the page. */

import { render } from 'preact'
import { App } from './shell/app.tsx'
import { startAccounts } from './state/account.ts'
import { startClock } from './state/clock.ts'
import { openExchange } from './state/exchange.ts'
import { followFunds } from './state/funds.ts'
import { followMarkets } from './state/markets.ts'
import { followOwnOrders } from './state/own-orders.ts'
import { followQuickMarkets } from './state/quick-markets.ts'
import { followAddress } from './state/router.ts'
import { watchSessionKey } from './state/session-key.ts'
import { startTheme } from './state/theme.ts'
import { startWatchlist } from './state/watchlist.ts'
import { findWallets } from './wallet/provider.ts'

startTheme()
startWatchlist()
followAddress()
startClock()
openExchange()
followMarkets()
findWallets()
startAccounts()
watchSessionKey()
followFunds()
followOwnOrders()
followQuickMarkets()

const place = document.getElementById('app')
if (place !== null) render(<App />, place)

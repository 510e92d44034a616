// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {BoundedCalls} from "./BoundedCalls.sol";
import {IConditionalTokens} from "./interfaces/IConditionalTokens.sol";
import {SettlementFunds} from "./SettlementFunds.sol";
import {Execution, OUTCOMES} from "./SettlementTypes.sol";

/// Mints complete sets for two buyers of opposite outcomes, and merges the outcome tokens of two
/// sellers into complete sets. Tokens and collateral pass through this contract within one call
/// and never stay.
abstract contract CompleteSets is SettlementFunds {
    /// Gas of the call that executes a mint or a merge: four transfers, and a split or merge of up to `SET_GAS`. Only
    /// markets whose token ids take long to compute need most of `SET_GAS`.
    uint256 internal constant SET_FILL_GAS = 750_000;
    uint256 private constant SET_GAS = 250_000;

    /// The outcome tokens could not be moved to the seller of a mint.
    error SellerSharesMoveFailed();

    constructor() {
        // A mint needs an allowance of collateral for the conditional tokens. An unlimited
        // allowance is safe, because the conditional tokens take collateral only from their caller.
        SafeERC20.forceApprove(collateral, address(conditionalTokens), type(uint256).max);
    }

    /// Implements `onERC1155Received` and `onERC1155BatchReceived`, so that this contract can receive the outcome
    /// tokens of a mint or a merge. Both functions return their own selector. Their first argument is the account that
    /// moves the tokens. If another account moves tokens here, they are rejected, because they could never leave this
    /// contract.
    fallback() external {
        if (
            msg.sender != address(conditionalTokens)
                || uint256(bytes32(msg.data[4:])) != uint160(address(this))
        ) revert OnlySelf();
        assembly ("memory-safe") {
            mstore(0x00, and(calldataload(0x00), shl(224, 0xffffffff)))
            return(0x00, 0x20)
        }
    }

    /// Moves the funds of a mint or a merge. A mint takes `cost` from the buyer and `size - cost` from the seller. It
    /// splits this collateral into outcome tokens, and delivers one outcome to each trader. A merge takes one outcome
    /// from each trader and merges the tokens into collateral. It pays `cost` to the seller and `size - cost` to the
    /// buyer.
    function _moveSets(Execution calldata e, bool isMint) internal {
        (address buyer, address seller, uint256 size) = (e.buyer, e.seller, e.size);
        (uint256 id, uint256 otherId) = (e.positionId, _positionId(e.marketId, 1 - e.outcome));
        uint256 held = _held();
        if (isMint) {
            if (
                !_moveCollateral(buyer, address(this), e.cost)
                    || !_moveCollateral(seller, address(this), size - e.cost)
                    || !_callSets(IConditionalTokens.splitPosition.selector, e.marketId, size)
                    || _held() < held
            ) revert CollateralMoveFailed();
            // These transfers come last, because they may call the buyer and the seller. By then
            // both have paid.
            if (!_moveShares(address(this), buyer, id, size)) revert SharesMoveFailed();
            if (!_moveShares(address(this), seller, otherId, size)) revert SellerSharesMoveFailed();
        } else if (
            !_moveShares(seller, address(this), id, size)
                || !_moveShares(buyer, address(this), otherId, size)
                || !_callSets(IConditionalTokens.mergePositions.selector, e.marketId, size)
                || !_pay(seller, e.cost) || !_pay(buyer, size - e.cost) || _held() < held
        ) revert CollateralMoveFailed();
    }

    /// Splits or merges `size` complete sets of the market.
    function _callSets(bytes4 selector, bytes32 marketId, uint256 size)
        private
        returns (bool success)
    {
        uint256[] memory partition = new uint256[](OUTCOMES);
        (partition[0], partition[1]) = (1, 2);
        (success,,) = BoundedCalls.call(
            address(conditionalTokens),
            SET_GAS,
            abi.encodeWithSelector(selector, collateral, bytes32(0), marketId, partition, size)
        );
    }

    function _pay(address to, uint256 amount) private returns (bool) {
        (bool success, uint256 length, uint256 word) = BoundedCalls.call(
            address(collateral), TRANSFER_GAS, abi.encodeCall(IERC20.transfer, (to, amount))
        );
        return success && (length == 0 || (length >= 32 && word == 1));
    }

    /// Returns this contract's balance of collateral. Outside a mint or a merge, it contains only collateral sent by
    /// mistake. A mint or a merge that reduces this balance reverts. Without this check, a collateral that charges a
    /// fee on transfers could take the fee from this balance.
    function _held() private view returns (uint256) {
        return BoundedCalls.read(
            address(collateral), abi.encodeCall(IERC20.balanceOf, (address(this)))
        );
    }
}
